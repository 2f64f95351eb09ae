// Package replay checks that a server's answers follow from its log. During an audit by package
// monitor, it copies the log and builds an index of the copy. It then asks the server and the copy
// the same questions and compares the answers row by row. No row may be missing, added, or changed.
// The questions look like those of other clients and come in a random order, so that a server
// cannot recognise an auditor and treat it differently. New returns the check for
// monitor.Options.AnswerChecker.
package replay
