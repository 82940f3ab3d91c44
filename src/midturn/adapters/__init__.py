"""Other frameworks, one small file each, on top of `Inquirer`: their tools ask as ours do. Each needs the extra of its name."""
