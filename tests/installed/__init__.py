"""The README's first command installs the server without extras; these tests show that everything of the server works
then."""
