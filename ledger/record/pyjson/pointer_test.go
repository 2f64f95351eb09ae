package pyjson

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAppendPointer(t *testing.T) {
	for token, want := range map[string]string{
		"":                       "/",
		"a":                      "/a",
		"~/~1":                   "/~0~1~01",
		"é🎵":                     "/é🎵",
		"x\xed\xa0\x80y":         "/x\ufffdy",
		"\xed\xbf\xbf":           "/\ufffd",
		"\xff\xed\xa0":           "/\ufffd\ufffd\ufffd",
		"\xed\x9f\xbf\ufffd\"\n": "/\ud7ff\ufffd\"\n",
	} {
		require.Equal(t, "p"+want, string(AppendPointerToken([]byte("p"), []byte(token))), "%q", token)
	}
}

func TestLoneSurrogate(t *testing.T) {
	for _, c := range []struct {
		source, pointer string
		found           bool
	}{
		{`"\ud800"`, "", true},
		{`"\ud83c\udfb5"`, "", false},
		{`"\udfb5\ud83c"`, "", true},
		{`"\ud83c\ud83c\udfb5"`, "", true},
		{`"\ufffd\ud7ff\ue000"`, "", false},
		{`{"a":[1,{"b":"x"},["\udfff"]],"c":"\ud800"}`, "/a/2/0", true},
		{`{"a/b":{"~":"\uDBFF"}}`, "/a~1b/~0", true},
		{`{"a":{"x":1,"\ud800":"\ud800"}}`, "/a", true},
		{`{"\ud800":1}`, "", true},
		{`[[],[{"":[0,"\ud800x"]}]]`, "/1/0//1", true},
	} {
		pointer, found := parse(t, c.source).FindLoneSurrogate()
		require.Equal(t, c.found, found, c.source)
		require.Equal(t, c.pointer, pointer, c.source)
	}
	root := parse(t, `{"clean":["x"],"dirty":[{"a":"\ud800"}]}`)
	_, found := root.Member("clean").FindLoneSurrogate()
	require.False(t, found)
	pointer, found := root.Member("dirty").FindLoneSurrogate()
	require.True(t, found)
	require.Equal(t, "/0/a", pointer, "relative to the value")
}
