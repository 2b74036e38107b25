//! `once` with a terminal, signals, and a hapax that is frozen or killed.
