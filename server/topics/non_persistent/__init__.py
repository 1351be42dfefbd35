"""Topics without storage: a message goes to whoever takes it in that moment, and is gone."""
