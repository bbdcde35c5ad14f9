"""Numbers that can be quoted: bits a character, exact over whole files."""
