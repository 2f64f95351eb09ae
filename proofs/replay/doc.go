// Package replay checks that a server's answers follow from its log. During an audit by package
// monitor, it copies the log, builds an index of the copy, asks the server and the copy the same
// questions, and compares the answers row by row: nothing may be missing, added, or changed. Its
// questions look like those of other clients and come in a random order, so that a server cannot
// recognise an auditor and treat it differently. New returns the check for monitor.Options.Answers.
package replay
