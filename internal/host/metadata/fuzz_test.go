//go:build linux

package metadata

import (
	"bufio"
	"bytes"
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/record"
)

// FuzzRequest shows that the metadata of an instance that wants tokens are given for one of its own tokens alone, and
// that no request gets more than an answer: it begins with requests as they travel.
func FuzzRequest(f *testing.F) {
	w := newRows(f)
	w.change(func(i *record.Instance) { i.Metadata.HTTPTokens = ec2types.HttpTokensStateRequired })
	s, key := w.service(), record.EC2Key(account, region, "vpc-1")
	valid, err := s.secret.newToken(machineID, w.clock.Now().Unix()+60)
	if err != nil {
		f.Fatal(err)
	}
	foreign, err := s.secret.newToken("i-0fffffffffffffff0", w.clock.Now().Unix()+60)
	if err != nil {
		f.Fatal(err)
	}
	expired, err := s.secret.newToken(machineID, w.clock.Now().Unix())
	if err != nil {
		f.Fatal(err)
	}
	for _, request := range []string{
		"PUT /latest/api/token HTTP/1.1\r\nHost: a\r\nX-aws-ec2-metadata-token-ttl-seconds: 21600\r\nContent-Length: " +
			"0\r\n\r\n",
		"PUT /latest/api/token HTTP/1.1\r\nHost: a\r\nX-aws-ec2-metadata-token-ttl-seconds: -1\r\nX-Forwarded-For: " +
			"10.0.0.1\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET /latest/meta-data/ HTTP/1.1\r\nHost: a\r\n\r\n",
		"POST /latest/user-data HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET /latest/user-data HTTP/1.1\r\nHost: a\r\nX-aws-ec2-metadata-token: " + foreign + "\r\n\r\n",
		"GET /2021-03-23/dynamic/instance-identity/pkcs7 HTTP/1.1\r\nHost: a\r\nX-aws-ec2-metadata-token: " + expired +
			"\r\n\r\n",
		"GET /latest/meta-data/iam/security-credentials/NodeRole HTTP/1.1\r\nHost: a\r\nX-aws-ec2-metadata-token: " +
			valid + "\r\n\r\n",
		"GET /latest/meta-data/network/interfaces/macs/0a:00:00:00:00:01/../../%2e%2e HTTP/1.1\r\nHost: " +
			"a\r\nX-aws-ec2-metadata-token: " + valid + "\r\n\r\n",
		"HEAD /latest/meta-data/tags/instance/Name HTTP/1.0\r\nX-aws-ec2-metadata-token: " + valid +
			"\r\nX-aws-ec2-metadata-token: x\r\n\r\n",
	} {
		f.Add([]byte(request), true)
	}
	// Tokens leave on a socket, whose hop limit is set.
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		f.Fatal(err)
	}
	defer l.Close()
	socket, err := net.Dial("tcp4", l.Addr().String())
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { socket.Close() })
	ctx := context.WithValue(f.Context(), connection{}, socket)
	f.Fuzz(func(t *testing.T, raw []byte, machine bool) {
		r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(raw)))
		if err != nil {
			return
		}
		r.RemoteAddr = "10.0.0.99:40000" // nobody's
		if machine {
			r.RemoteAddr = "10.0.0.4:40000"
		}
		answer := httptest.NewRecorder()
		s.serveRequest(answer, r.WithContext(ctx), key)
		switch code := answer.Code; {
		case code >= http.StatusInternalServerError:
			t.Fatalf("%s\nis answered with %d", raw, code)
		case code != http.StatusOK:
		case !machine:
			t.Fatalf("%s\nof a stranger is answered with\n%s", raw, answer.Body)
		case r.Method == http.MethodPut:
			seconds, err := strconv.Atoi(answer.Header().Get(tokenTTL))
			if err != nil || seconds < 1 || seconds > longest {
				t.Fatalf("%s\ngives a token for %d seconds", raw, seconds)
			}
			if left, err := s.secret.verifyToken(answer.Body.String(), machineID, w.clock.Now().Unix()); err != nil ||
				left != int64(seconds) {
				t.Fatalf("%s\ngives a token for %d seconds, that is good for %d: %v", raw, seconds, left, err)
			}
		case r.Header.Get(tokenName) != valid:
			t.Fatalf("%s\nis answered without a token with\n%s", raw, answer.Body)
		}
	})
}

// FuzzToken shows that a token that was altered, or made up, is no token.
func FuzzToken(f *testing.F) {
	s := &secret{dir: f.TempDir()}
	valid, err := s.newToken(machineID, 2_000_000_000)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(valid, machineID)
	f.Add(valid+"\n", machineID)
	f.Add("", "")
	f.Fuzz(func(t *testing.T, token, instance string) {
		left, err := s.verifyToken(token, instance, 1_999_999_999)
		if genuine := token == valid && instance == machineID; genuine != (err == nil) || genuine && left != 1 {
			t.Fatalf("%q of %q: %d, %v", token, instance, left, err)
		}
	})
}

// Slow clients, and those that send more than a request, are cut off.
func TestTheServersOfVPCsHaveLimits(t *testing.T) {
	t.Parallel()
	s := New(Options{Dir: t.TempDir()})
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.serveVPC("vpc", 1, l)
	defer s.stopServing("vpc")
	server := s.listening["vpc"].servers[0]
	if server.ReadHeaderTimeout == 0 || server.ReadTimeout == 0 || server.WriteTimeout == 0 ||
		server.IdleTimeout == 0 ||
		server.MaxHeaderBytes == 0 {
		t.Errorf("a limit is missing: %+v", server)
	}
}
