"""Map matching: which roads a vehicle was on, from its positions, by a hidden Markov model."""
