"""Load and chaos on a real server: the tests take a little of it, ``make soak`` takes it whole."""
