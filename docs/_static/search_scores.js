// Who searches for a word wants the page that explains it before each property of that name.
var Scorer = {
  score: ([docname, , , , score]) => score + (/^(tutorials|guides|concepts|notebooks)\//.test(docname) ? 10 : 0),
  objNameMatch: 6,
  objPartialMatch: 2,
  objPrio: { 0: 15, 1: 0, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
