"""What the README's first command installs, without extras: everything of the server works in it."""
