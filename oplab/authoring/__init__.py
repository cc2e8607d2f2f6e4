"""For authors: what each exercise promises (:mod:`oplab.authoring.lint`) and how one begins (:mod:`oplab.authoring.new`)."""
