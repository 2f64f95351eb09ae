// Package fetch downloads a log, and answers about it, from a server that is not trusted. A
// server cannot make it use more memory or wait longer than its bounds say.
package fetch
