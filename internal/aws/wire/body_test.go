package wire_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// counted is a body that tells how much of it was read.
type counted struct {
	io.Reader
	n int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += int64(n)
	return n, err
}

func (*counted) Close() error { return nil }

// lookups notes how much of the body was read when the access key was looked up.
type lookups struct {
	body *counted
	read int64
}

func (l *lookups) Lookup(ctx context.Context, id, token string) (string, wire.Caller, error) {
	l.read = l.body.n
	return keys{}.Lookup(ctx, id, token)
}

// TestBodiesAreNotKeptForStrangers shows that of a large body only the beginning is read into memory before somebody
// signs for it, and that the sender is told why the rest is not wanted all the same.
func TestBodiesAreNotKeptForStrangers(t *testing.T) {
	t.Parallel()
	const (
		beginning = 128<<10 + 1
		limit     = 1 << 20
	)
	large := strings.Repeat(" ", 512<<10)
	form := "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=arn:aws:iam::111122223333:role/x&RoleSessionName=pod&WebIdentityToken=abcdef&x="
	for name, test := range map[string]struct {
		service, id  string
		age          time.Duration
		body         string
		status       int
		says         string
		handed, read int64 // of the body: at most before the look-up, and at least at the end
	}{
		"nobody":         {body: large, status: 403, says: "MissingAuthenticationToken", read: 512 << 10},
		"a web identity": {body: form + large, status: 413, says: "larger than 131072 bytes", read: 512 << 10},
		"a small one":    {body: form, status: 200},
		"an unknown key": {service: "eks", id: "AKIAUNKNOWN", body: large, status: 403, says: "UnrecognizedClient",
			handed: beginning, read: 512 << 10},
		"an old signature": {service: "eks", id: "AKIA", age: time.Hour, body: large, status: 403,
			says: "Signature expired", handed: beginning, read: 512 << 10},
		"a signature": {service: "eks", id: "AKIA", body: large + "{}", status: 400,
			says: "InvalidParameterException", handed: beginning, read: 512 << 10},
		"more than the limit": {service: "eks", id: "AKIA", body: strings.Repeat(" ", limit+1), status: 413,
			says: "larger than 1048576 bytes", handed: beginning, read: limit},
	} {
		for _, length := range []int64{int64(len(test.body)), -1, 0} {
			t.Run(fmt.Sprintf("%s, said to be %d", name, length), func(t *testing.T) {
				t.Parallel()
				body := &counted{Reader: strings.NewReader(test.body)}
				l := &lookups{body: body}
				m := wire.NewMux(wire.Options{Credentials: l, Authorizer: &policy{},
					Logger: slog.New(slog.DiscardHandler), MaxBody: limit})
				m.Register(wire.EKS, eksService{}.handlers()...)
				m.Register(wire.STS, stsService{}.handlers()...)
				r := httptest.NewRequest(http.MethodPost, "http://coracle.test/clusters", body)
				if test.service == "" {
					r.URL.Path = "/"
				}
				r.ContentLength = length
				if test.service != "" {
					creds := aws.Credentials{AccessKeyID: test.id, SecretAccessKey: "secret"}
					if err := v4.NewSigner().SignHTTP(t.Context(), creds, r, hash(test.body), test.service, "us-west-2",
						time.Now().Add(-test.age)); err != nil {
						t.Fatal(err)
					}
				}
				w := httptest.NewRecorder()
				m.ServeHTTP(w, r)
				if text := w.Header().Get("X-Amzn-Errortype") + w.Body.String(); w.Code != test.status ||
					!strings.Contains(text, test.says) {
					t.Errorf("%d %s, want %d %s", w.Code, text, test.status, test.says)
				}
				if l.read > test.handed {
					t.Errorf("%d bytes were read before the key was looked up, not %d", l.read, test.handed)
				}
				if body.n < test.read && !(test.status == 413 && length > 0) {
					t.Errorf("%d bytes were read, not %d: the sender may not get the answer", body.n, test.read)
				}
			})
		}
	}
}

// TestLargeBodiesShareTheirMemory shows that a large request waits while others have all that bodies may have, and is
// told to come again.
func TestLargeBodiesShareTheirMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const size = 256 << 10
		m := wire.NewMux(wire.Options{Credentials: keys{}, Authorizer: &policy{}, Logger: slog.New(slog.DiscardHandler),
			MaxBody: size, MaxBodies: 2*size - 1})
		m.Register(wire.EKS, eksService{}.handlers()...)
		body := strings.Repeat(" ", size-2) + "{}"
		send := func(in io.Reader) chan *httptest.ResponseRecorder {
			r := httptest.NewRequest(http.MethodPost, "http://coracle.test/clusters", in)
			r.ContentLength = size
			if err := v4.NewSigner().SignHTTP(t.Context(), aws.Credentials{AccessKeyID: "AKIA",
				SecretAccessKey: "secret"}, r, hash(body), "eks", "us-west-2", time.Now()); err != nil {
				t.Fatal(err)
			}
			answered := make(chan *httptest.ResponseRecorder, 1)
			go func() {
				w := httptest.NewRecorder()
				m.ServeHTTP(w, r)
				answered <- w
			}()
			return answered
		}
		slow, sender := io.Pipe()
		first := send(slow)
		if _, err := io.WriteString(sender, body[:size-10]); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if w := <-send(strings.NewReader(body)); w.Code != http.StatusServiceUnavailable ||
			w.Header().Get("X-Amzn-Errortype") != "ServiceUnavailable" {
			t.Errorf("beside a large request there is room for another: %d %s", w.Code, w.Body)
		}
		second := send(strings.NewReader(body)) // waits
		synctest.Wait()
		if _, err := io.WriteString(sender, body[size-10:]); err != nil {
			t.Fatal(err)
		}
		sender.Close()
		for _, answered := range []func() chan *httptest.ResponseRecorder{
			func() chan *httptest.ResponseRecorder { return first },
			func() chan *httptest.ResponseRecorder { return second },
			func() chan *httptest.ResponseRecorder { return send(strings.NewReader(body)) }, // with room for it
		} {
			if w := <-answered(); w.Code != http.StatusBadRequest ||
				w.Header().Get("X-Amzn-Errortype") != "InvalidParameterException" {
				t.Errorf("a large request was not served: %d %s", w.Code, w.Body)
			}
		}
	})
}

// TestOneSourceDoesNotTakeTheMemoryOfBodies shows that strangers who send the beginnings of bodies, and then nothing,
// keep nobody else from sending.
func TestOneSourceDoesNotTakeTheMemoryOfBodies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := wire.NewMux(wire.Options{
			Credentials: keys{}, Authorizer: &policy{}, Logger: slog.New(slog.DiscardHandler), MaxBody: 256 << 10,
			MaxBodies: 2 << 20,
		})
		m.Register(wire.EKS, eksService{}.handlers()...)
		body := strings.Repeat(" ", 100<<10) + "{}"
		send := func(source string, in io.Reader) chan int {
			r := httptest.NewRequest(http.MethodPost, "http://coracle.test/clusters", in)
			r.RemoteAddr, r.ContentLength = source+":1234", int64(len(body))
			creds := aws.Credentials{AccessKeyID: "AKIA", SecretAccessKey: "secret"}
			if err := v4.NewSigner().SignHTTP(t.Context(), creds, r, hash(body), "eks", "us-west-2",
				time.Now()); err != nil {
				t.Fatal(err)
			}
			answered := make(chan int, 1)
			go func() {
				w := httptest.NewRecorder()
				m.ServeHTTP(w, r)
				answered <- w.Code
			}()
			return answered
		}
		refused := 0
		for range 10 {
			stalled, sender := io.Pipe()
			answered := send("10.0.0.1", stalled)
			go io.WriteString(sender, body[:len(body)-1]) //nolint:errcheck // until the end of the test
			t.Cleanup(func() { sender.Close() })
			time.Sleep(10 * time.Second) // of synctest's clock
			select {
			case code := <-answered:
				if code != http.StatusServiceUnavailable {
					t.Errorf("a request that stalls was answered with %d", code)
				}
				stalled.Close()
				refused++
			default:
			}
		}
		if refused == 0 || refused == 10 {
			t.Errorf("%d of 10 requests of one source were refused", refused)
		}
		for _, source := range []string{"10.0.0.2", "127.0.0.1"} {
			if code := <-send(source, strings.NewReader(body)); code != http.StatusBadRequest {
				t.Errorf("%s is answered with %d", source, code)
			}
		}
	})
}

// TestManyValuesAreRefused shows that a body cannot become a multiple of its size before it is known what its sender
// may do.
func TestManyValuesAreRefused(t *testing.T) {
	t.Parallel()
	const many = 250_000
	m := wire.NewMux(wire.Options{Credentials: keys{},
		Authorizer: &policy{deny: []string{"eks:CreateCluster", "iam:ListRoles"}},
		Logger:     slog.New(slog.DiscardHandler)})
	m.Register(wire.EKS, eksService{}.handlers()...)
	m.Register(wire.IAM, iamService{}.handlers()...)
	var form strings.Builder
	form.WriteString("Action=ListRoles&Version=2010-05-08")
	for i := range 20_000 {
		fmt.Fprintf(&form, "&x%d", i)
	}
	cluster := func(more string) string {
		return `{"name":"x","roleArn":"arn:aws:iam::111122223333:role/r","resourcesVpcConfig":{},` + more + `}`
	}
	for name, test := range map[string]struct {
		service, path, body, says string
		status                    int
	}{
		"structures": {"eks", "/clusters", cluster(`"encryptionConfig":[` + strings.Repeat("{},", many) +
			`{}]`), "more than 200000 values", 400},
		"lists": {"eks", "/clusters", cluster(`"encryptionConfig":[{"resources":[` + strings.Repeat(`[[`,
			many) + `]}]`), "more than 200000 values", 400},
		"commas in a string": {"eks", "/clusters", cluster(`"x":"` + strings.Repeat(`,{[\",`, many) + `"`),
			"AccessDenied", 403},
		"keys of a map": {"eks", "/clusters", cluster(`"tags":{` + strings.Repeat(`"a":"b",`, many) + `"a":"b"}`),
			"more than 200000 values", 400},
		"parameters": {"iam", "/", form.String(), "MalformedQueryString", 404},
		"indexes that differ": {"iam", "/",
			"Action=ListRoles&Version=2010-05-08&Tags.member.999999999.Key=a&Tags.member.99999999999999999999.Key=b",
			"AccessDenied", 403},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequest(http.MethodPost, "http://coracle.test"+test.path, strings.NewReader(test.body))
			status, header, text := send(t, m, test.service, "secret", time.Now(), r, test.body)
			if text = header.Get("X-Amzn-Errortype") + text; status != test.status ||
				!strings.Contains(text, test.says) {
				t.Errorf("%d %.300s, want %d %s", status, text, test.status, test.says)
			}
		})
	}
}
