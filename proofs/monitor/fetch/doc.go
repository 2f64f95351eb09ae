// Package fetch downloads a log, and answers about it, from an untrusted server. No server can make
// it use more memory, or wait longer, than its limits allow.
package fetch
