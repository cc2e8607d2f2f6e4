// does: the submitted file is a link to the solution, which has C++ in it
// stopped by: reading
// status: error
// says: is a link, and links are not followed
// submitted as: a link to the solution
