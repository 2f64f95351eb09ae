package cli

import "regexp"

var hashPrefix = regexp.MustCompile(`^[0-9a-f]{8,64}$`)

// IsHashPrefix reports whether a text is a hash, or enough of its first digits for the server to find it.
func IsHashPrefix(text string) bool { return hashPrefix.MatchString(text) }
