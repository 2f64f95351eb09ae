package access

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBearer(t *testing.T) {
	for header, want := range map[string]string{
		"Bearer abc": "abc", "bearer abc": "abc", "BEARER   abc==": "abc==", "Bearer a.b-c_d~e+f/g": "a.b-c_d~e+f/g",
		"Bearer " + strings.Repeat("a", maxBearer): strings.Repeat("a", maxBearer),
	} {
		token, err := bearerOf(http.Header{"Authorization": {header}})
		require.NoError(t, err, header)
		require.Equal(t, want, token)
	}
	for _, headers := range [][]string{
		{""}, {"Bearer"}, {"Bearer "}, {"abc"}, {"Basic abc"}, {"Bearer a b"}, {"Bearer abc, Basic def"}, {"Bearer\tabc"}, {"Bearer abc\n"},
		{"Bearer =abc"}, {"Bearer a=b"}, {"Bearer é"}, {"Bearer " + strings.Repeat("a", maxBearer+1)}, {"Digest a"}, {"BearerX abc"}, {"Bearer: abc"},
		{"Bearer abc", "Bearer abc"}, {"Bearer abc", "Basic def"}, {"", "Bearer abc"},
	} {
		_, err := bearerOf(http.Header{"Authorization": headers})
		require.Error(t, err, "%q", headers)
		require.NotErrorIs(t, err, ErrNoCredentials, "%q", headers)
	}
	_, err := bearerOf(http.Header{"Cookie": {"Bearer abc"}})
	require.ErrorIs(t, err, ErrNoCredentials)
}

func FuzzBearer(f *testing.F) {
	for _, header := range []string{"", "Bearer", "Bearer a", "bearer  a==", "Basic YTpi", "Bearer a, Bearer b", "Bearer a=b"} {
		f.Add(header)
	}
	f.Fuzz(func(t *testing.T, header string) {
		token, err := bearerOf(http.Header{"Authorization": {header}})
		if err != nil {
			require.Empty(t, token)
			return
		}
		require.NotEmpty(t, token)
		require.LessOrEqual(t, len(token), maxBearer)
		require.False(t, strings.ContainsAny(token, " \t\r\n,;\""))
		require.True(t, strings.HasSuffix(header, token))
		require.True(t, strings.EqualFold("bearer", strings.TrimSpace(strings.TrimSuffix(header, token))))
	})
}

func FuzzToken(f *testing.F) {
	text, _ := newTokenText()
	for _, seed := range []string{text, "", "colophon_", text + "\n", strings.ToUpper(text), strings.Replace(text, "_", "-", 2)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		id, ok := tokenID(text)
		if !ok {
			require.Empty(t, id)
			return
		}
		require.Regexp(t, idPattern, id)
		require.True(t, strings.HasPrefix(text, tokenPrefix+id+"_"))
		require.Len(t, text, len(tokenPrefix)+16+1+52)
	})
}
