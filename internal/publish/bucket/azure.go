package bucket

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/md5" // #nosec G501 -- the checksum of the service
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
)

// azure is a container of Azure Blob Storage, accessed through its REST API. The tag of an object is its ETag.
//
// Azure's own client is not used, because it depends on Apache Arrow, which it needs only to list containers.
type azure struct {
	rest
	address *url.URL // URL of the container, with a shared access signature if there is one
	prefix  string
}

// azureVersion is the version of the REST API that requests use.
const azureVersion = "2023-11-03"

// azureAccess holds the address of a storage account and the credentials for it.
type azureAccess struct {
	endpoint  string // URL of the account's blob service
	account   string
	key       string // key of the account, in base64; empty if there is none
	signature string // a shared access signature; empty if there is none
}

// openAzure returns the container that p describes. The account and the credentials come from the
// environment variables that Azure's own tools read. Without a key or a signature, the credentials come
// from azidentity's default chain.
func openAzure(p place) (Bucket, error) {
	access := azureAccess{account: os.Getenv("AZURE_STORAGE_ACCOUNT"), key: os.Getenv("AZURE_STORAGE_KEY"), signature: os.Getenv("AZURE_STORAGE_SAS_TOKEN")}
	if connection := os.Getenv("AZURE_STORAGE_CONNECTION_STRING"); connection != "" {
		access = parseConnection(connection)
	}
	switch {
	case p.endpoint != nil:
		access.endpoint = p.endpoint.String()
	case access.endpoint == "" && access.account == "":
		return nil, errors.New("no storage account is configured: set AZURE_STORAGE_CONNECTION_STRING or AZURE_STORAGE_ACCOUNT, or use azblob://container/prefix?endpoint=https://ACCOUNT.blob.core.windows.net")
	case access.endpoint == "":
		access.endpoint = "https://" + access.account + ".blob.core.windows.net"
	}
	address, err := parseEndpoint(access.endpoint, true)
	if err != nil {
		return nil, err
	}
	b := &azure{rest: newREST("container "+p.bucket, explainAzure), address: address.JoinPath(url.PathEscape(p.bucket)), prefix: p.prefix}
	credential := func(*http.Request) error { return nil }
	switch {
	case access.key != "":
		key, err := base64.StdEncoding.DecodeString(access.key)
		if err != nil || access.account == "" {
			return nil, errors.New("invalid storage account key: the key must be base64, and AZURE_STORAGE_ACCOUNT must name the account")
		}
		credential = sharedKey{access.account, key}.sign
	case access.signature != "":
		b.address.RawQuery = strings.TrimPrefix(access.signature, "?")
	case address.Scheme == "https": // never send a token unencrypted
		chain, err := azidentity.NewDefaultAzureCredential(nil)
		if err != nil {
			return nil, fmt.Errorf("finding Azure credentials (set AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN, or the variables for a service principal): %w", err)
		}
		credential = func(r *http.Request) error {
			token, err := chain.GetToken(r.Context(), policy.TokenRequestOptions{Scopes: []string{"https://storage.azure.com/.default"}})
			r.Header.Set("Authorization", "Bearer "+token.Token)
			return err
		}
	}
	b.authorize = func(r *http.Request) error {
		r.Header.Set("X-Ms-Version", azureVersion)
		r.Header.Set("X-Ms-Date", time.Now().UTC().Format(http.TimeFormat))
		return credential(r)
	}
	return b, nil
}

// parseConnection parses an Azure connection string, such as AccountName=…;AccountKey=….
func parseConnection(text string) azureAccess {
	parts := make(map[string]string)
	for part := range strings.SplitSeq(text, ";") {
		name, value, _ := strings.Cut(part, "=")
		parts[strings.TrimSpace(name)] = value
	}
	access := azureAccess{endpoint: parts["BlobEndpoint"], account: parts["AccountName"], key: parts["AccountKey"], signature: parts["SharedAccessSignature"]}
	if access.endpoint == "" && access.account != "" {
		access.endpoint = cmp.Or(parts["DefaultEndpointsProtocol"], "https") + "://" + access.account + ".blob." + cmp.Or(parts["EndpointSuffix"], "core.windows.net")
	}
	return access
}

func (b *azure) object(name string) string {
	return b.address.JoinPath((&url.URL{Path: path.Join(b.prefix, name)}).EscapedPath()).String()
}

// Get implements Bucket.
func (b *azure) Get(ctx context.Context, name string, limit int64) (body []byte, tag string, err error) {
	header, body, err := b.read(ctx, name, b.object(name), limit)
	return body, strings.Trim(header.Get("ETag"), `"`), err
}

// Size implements Bucket.
func (b *azure) Size(ctx context.Context, name string) (int64, error) {
	response, err := b.do(ctx, name, http.MethodHead, b.object(name), nil, nil)
	if err != nil {
		return 0, err
	}
	return response.ContentLength, response.Body.Close()
}

// Put implements Bucket.
func (b *azure) Put(ctx context.Context, name string, body []byte, attributes Attributes, condition Condition) error {
	sum := md5.Sum(body) // #nosec G401 -- the service compares it before it keeps the object
	header := http.Header{"Content-Type": {attributes.ContentType}, "X-Ms-Blob-Cache-Control": {attributes.CacheControl},
		"X-Ms-Blob-Type": {"BlockBlob"}, "Content-Md5": {base64.StdEncoding.EncodeToString(sum[:])}}
	switch {
	case condition.absent:
		header.Set("If-None-Match", "*")
	case condition.tag != "":
		header.Set("If-Match", `"`+condition.tag+`"`)
	}
	err := b.write(ctx, name, http.MethodPut, b.object(name), body, header)
	if condition.tag != "" && errors.Is(err, ErrNotFound) {
		return fmt.Errorf("writing %s: %w", name, ErrPreconditionFailed)
	}
	return err
}

// explainAzure converts a failed response to an error of this package, such as ErrNotFound. It
// returns nil if none of these errors describes the failure.
func explainAzure(r *http.Response) error {
	code := r.Header.Get("X-Ms-Error-Code")
	switch {
	case r.StatusCode == http.StatusNotFound && code == "BlobNotFound":
		return ErrNotFound
	case r.StatusCode == http.StatusPreconditionFailed, r.StatusCode == http.StatusConflict && code == "BlobAlreadyExists":
		return ErrPreconditionFailed
	case r.StatusCode == http.StatusNotImplemented:
		return ErrConditionsUnsupported
	}
	return nil
}

// sharedKey signs requests with the key of a storage account.
type sharedKey struct {
	account string
	key     []byte
}

// sign adds a signature to a request that has no query, as described under "Authorize with Shared Key" in
// Azure's documentation.
func (k sharedKey) sign(r *http.Request) error {
	text := strings.Builder{}
	text.WriteString(r.Method)
	length := ""
	if r.ContentLength > 0 {
		length = strconv.FormatInt(r.ContentLength, 10)
	}
	for _, value := range []string{r.Header.Get("Content-Encoding"), r.Header.Get("Content-Language"), length, r.Header.Get("Content-MD5"), r.Header.Get("Content-Type"),
		"", // no Date header; the date is in x-ms-date
		r.Header.Get("If-Modified-Since"), r.Header.Get("If-Match"), r.Header.Get("If-None-Match"), r.Header.Get("If-Unmodified-Since"), r.Header.Get("Range")} {
		text.WriteString("\n" + value)
	}
	var own []string
	for name, values := range r.Header {
		if lower := strings.ToLower(name); strings.HasPrefix(lower, "x-ms-") {
			own = append(own, lower+":"+strings.Join(values, ","))
		}
	}
	slices.Sort(own)
	text.WriteString("\n" + strings.Join(own, "\n") + "\n/" + k.account + r.URL.EscapedPath())
	sum := hmac.New(sha256.New, k.key)
	sum.Write([]byte(text.String()))
	r.Header.Set("Authorization", "SharedKey "+k.account+":"+base64.StdEncoding.EncodeToString(sum.Sum(nil)))
	return nil
}
