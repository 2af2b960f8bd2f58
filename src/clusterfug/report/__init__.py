"""Reports for people: inspection of features, evaluation of clusterings, pictures."""
