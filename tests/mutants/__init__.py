"""Would the nearest tests notice a small bug? Plants sampled ones and says which of them nobody notices."""
