"""What people look at: inspection of features, evaluation of clusterings, pictures."""
