// Who searches for a word wants the function or the page of that name first, then pages that explain it, and properties last.
var Scorer = {
  score: ([docname, , , description, score]) => {
    const explains = /^(tutorials|guides|concepts|notebooks)\//.test(docname);
    const property = /\b(property|attribute)\b/.test(description || "");
    return score + (explains ? 4 : 0) - (property ? 21 : 0);
  },
  objNameMatch: 20,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
