"""Would the nearest tests notice a small bug? Plants a sample of small bugs and names those that no test notices."""
