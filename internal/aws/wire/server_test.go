package wire_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/eventually"
)

// serve runs wire.Server with other timeouts and returns its address.
func serve(t *testing.T, timeout time.Duration) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := wire.Server(l.Addr().String(), newMux(t, &policy{}))
	for name, d := range map[string]*time.Duration{"ReadHeaderTimeout": &s.ReadHeaderTimeout,
		"ReadTimeout": &s.ReadTimeout, "WriteTimeout": &s.WriteTimeout, "IdleTimeout": &s.IdleTimeout} {
		if *d == 0 {
			t.Errorf("the server has no %s", name)
		}
		*d = timeout
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		<-done
	})
	return l.Addr().String()
}

// A client that sends half a header, or half a body, and then nothing, loses its connection.
func TestSlowClientsAreCutOff(t *testing.T) {
	t.Parallel()
	addr := serve(t, 100*time.Millisecond)
	for name, text := range map[string]string{
		"header": "GET /clusters HTTP/1.1\r\nHost: x\r\nX-Slow: ",
		"body":   "POST /clusters HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := io.WriteString(c, text); err != nil {
				t.Fatal(err)
			}
			if err := c.SetReadDeadline(time.Now().Add(eventually.Limit)); err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, c); err != nil {
				t.Errorf("the connection is still open: %v", err)
			}
		})
	}
}

func TestExpectContinueAndTooLarge(t *testing.T) {
	t.Parallel()
	addr := serve(t, eventually.Limit)
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	in := bufio.NewReader(c)
	body := "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=arn:aws:iam::111122223333:role/x&RoleSessionName=pod&WebIdentityToken=abcdef"
	fmt.Fprintf(c,
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\nExpect: "+
			"100-continue\r\nContent-Length: %d\r\n\r\n", len(body))
	if line, err := in.ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 100") {
		t.Fatalf("no invitation to send the body: %q, %v", line, err)
	}
	if _, err := in.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	io.WriteString(c, body)
	res, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK || res.Header.Get("Date") == "" || res.Header.Get("X-Amzn-Requestid") == "" {
		text, _ := io.ReadAll(res.Body)
		t.Errorf("%s %v\n%s", res.Status, res.Header, text)
	}

	// More than the limit, without saying so in advance.
	big, err := http.Post("http://"+addr+"/", "application/x-www-form-urlencoded",
		io.MultiReader(strings.NewReader("Action=ListRoles&Version=2010-05-08&x="),
			strings.NewReader(strings.Repeat("x", 1<<17))))
	if err != nil {
		t.Fatal(err)
	}
	defer big.Body.Close()
	if big.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("a body over the limit gives %s", big.Status)
	}
}

// The largest session token goes through, as does the password of the registry that has it, and nothing much larger.
func TestHeadersHaveRoomForSessionTokens(t *testing.T) {
	t.Parallel()
	addr := serve(t, eventually.Limit)
	for size, refused := range map[int]bool{20 << 10: false, 32 << 10: true} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Amz-Security-Token", strings.Repeat("x", size))
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if got := answer.StatusCode == http.StatusRequestHeaderFieldsTooLarge; got != refused {
			t.Errorf("a header of %d bytes gives %s", size, answer.Status)
		}
	}
}
