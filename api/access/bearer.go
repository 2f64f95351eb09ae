package access

import (
	"errors"
	"net/http"
	"regexp"
	"strings"
)

// maxBearer is the maximum length of a token, in bytes. It is large because issuers that list a
// person's groups issue long tokens.
const maxBearer = 16 << 10

// bearerPattern matches the b64token syntax (RFC 6750, section 2.1).
var bearerPattern = regexp.MustCompile(`^[A-Za-z0-9._~+/-]+=*$`)

// bearerOf returns the token in a request's Authorization header. The error is
// ErrNoCredentials only if the header is missing.
func bearerOf(header http.Header) (string, error) {
	values := header.Values("Authorization")
	switch len(values) {
	case 0:
		return "", ErrNoCredentials
	case 1:
	default:
		return "", errors.New("the request has several Authorization headers")
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	token = strings.TrimLeft(token, " ")
	switch {
	case !strings.EqualFold(scheme, "Bearer"):
		return "", errors.New("the scheme of the Authorization header is not Bearer")
	case len(token) > maxBearer:
		return "", errors.New("the token is too long")
	case !bearerPattern.MatchString(token):
		return "", errors.New("the value after \"Bearer\" is not a well-formed token")
	}
	return token, nil
}
