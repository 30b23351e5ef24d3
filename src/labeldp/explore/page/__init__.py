"""The page itself, with Streamlit: controls on the left, answers on the right. Everything it shows is computed one folder up."""
