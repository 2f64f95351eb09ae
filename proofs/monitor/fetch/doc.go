// Package fetch downloads a log, and answers to queries about it, from an untrusted server. It
// limits the memory that the server can make it use and the time that the server can make it wait.
package fetch
