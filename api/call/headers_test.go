package call

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPreferredType(t *testing.T) {
	for accept, want := range map[string]string{
		"": "", "text/plain": "text/plain", "Text/Plain; charset=utf-8": "text/plain",
		"text/event-stream;q=0":                             "",
		"text/event-stream; Q=0.0, application/json;q=0.1":  "application/json",
		"application/json;q=0.5, text/event-stream":         "text/event-stream",
		"text/event-stream;q=0.5, application/json":         "application/json",
		"a/b;q=0.5, c/d;q=0.5":                              "a/b",
		"a/b;q=2, c/d;q=-1, e/f;q=nan, g/h;q=x, i/j;q=0.01": "i/j",
		"a/b;q=0.3;level=1, c/d;level=1;q=0.2":              "a/b",
		",, ;q=1,":                                          "",
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Accept", accept)
		require.Equal(t, want, PreferredMediaType(r), accept)
	}
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header["Accept"] = []string{"a/b;q=0.5", "c/d"}
	require.Equal(t, "c/d", PreferredMediaType(r))
}
