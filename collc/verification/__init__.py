"""From schedule to verdict; shares nothing with synthesis."""
