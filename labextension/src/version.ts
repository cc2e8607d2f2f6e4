/** The version of the course that these sources belong to: the same as in package.json and in `oplab.__version__`. */
export const VERSION = '0.1.0';
