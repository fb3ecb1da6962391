"""What the estimators of `linear` and `nn` share; nothing here is public by itself."""
