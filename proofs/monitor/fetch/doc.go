// Package fetch downloads a log, and answers to queries about it, from an untrusted server. Its
// limits bound how much memory a server can make it use and how long a server can make it wait.
package fetch
