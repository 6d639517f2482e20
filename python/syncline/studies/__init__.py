"""What is made of many runs: sweeps, searches, explanations, figures and the ledger of claims."""
