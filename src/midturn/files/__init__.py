"""Small files of the user's own: written whole, and believed only where nobody else can have written them."""
