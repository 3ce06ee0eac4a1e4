"""What editors ask about programs: messages, the meaning of names, completion, ...; and the language server."""
