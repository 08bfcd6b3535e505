"""What releases 1.2 to 1.8 had: a loop of plain PyTorch that a Session watches."""
