package eksctl

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/test/harness"
)

// replayer sends to a daemon what recordings have.
type replayer struct {
	endpoint   string
	config     aws.Config
	translated translation
}

// interval is the time from a question to the same again: the machine has nodes to start meanwhile.
const interval = 100 * time.Millisecond

// replay sends the requests of a recording in their order, and checks that the answers have the same members. It asks
// again what eksctl would until the statuses are those that eksctl waited for.
func (r *replayer) replay(t *testing.T, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var exchanges []exchange
	if err := json.Unmarshal(text, &exchanges); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	for _, recorded := range exchanges {
		request := r.translated.request(recorded)
		var actual []leaf
		err := eventually.Try(interval, func() error {
			code, body, err := r.send(request)
			if err != nil {
				return eventually.Never(err)
			}
			if actual, err = flatten(body); err != nil {
				return eventually.Never(err)
			}
			problem := difference(recorded.Answer, actual)
			if code != recorded.Status {
				problem = fmt.Sprintf("it answers %d, want %d", code, recorded.Status)
			}
			if problem == "" {
				return nil
			}
			err = fmt.Errorf("%s\n%s", problem, body)
			if !request.asks() {
				return eventually.Never(err)
			}
			return err
		})
		if err != nil {
			t.Fatalf("%s: %v", request.operation(), err)
		}
		r.translated.learn(recorded.Answer, actual)
	}
}

// send signs a request as the account's root user and sends it.
func (r *replayer) send(e exchange) (status int, answer []byte, err error) {
	body := []byte(e.encoded())
	request, err := http.NewRequest(e.Method, r.endpoint+e.URI, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	for name, value := range map[string]string{"Content-Type": e.Type, "X-Amz-Target": e.Target} {
		if value != "" {
			request.Header.Set(name, value)
		}
	}
	ctx := context.Background()
	key, err := r.config.Credentials.Retrieve(ctx)
	if err != nil {
		return 0, nil, err
	}
	hash := sha256.Sum256(body)
	err = v4.NewSigner().SignHTTP(ctx, key, request, hex.EncodeToString(hash[:]), e.Service, harness.Region, time.Now())
	if err != nil {
		return 0, nil, err
	}
	response, err := r.config.HTTPClient.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(response.Body)
	return response.StatusCode, answer, err
}
