"""The intermediate representation: scalar expressions, and graphs of operators. No text is parsed here."""
