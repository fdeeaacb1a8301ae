package console

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"golang.org/x/net/websocket"
	corev1 "k8s.io/api/core/v1"

	"github.com/coracle-eks/coracle/test/harness"
)

// TestKubernetes reaches a real API server as a page does: with requests, and a watch over a WebSocket.
func TestKubernetes(t *testing.T) {
	t.Parallel()
	d := harness.Start(t)
	d.CreateCluster("web", "1.35", d.ClusterRole(), d.Subnets())
	d.AwaitStatus("web", ekstypes.ClusterStatusActive)
	base := d.Endpoint + "/console/kubernetes/" + harness.Region + "/web"
	token := d.Token("web")
	request := func(token, method, path, body string) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, base+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Content-Type", "application/json")
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, string(text)
	}
	if status, text := request(token, http.MethodGet, "/api/v1/namespaces/default", ""); status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}

	config, err := websocket.NewConfig("ws"+strings.TrimPrefix(base, "http")+
		"/api/v1/namespaces/default/configmaps?watch=true", d.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	config.Protocol = []string{"base64url.bearer.authorization.k8s.io." +
		base64.RawURLEncoding.EncodeToString([]byte(token)), "v1.watch.k8s.io"}
	socket, err := config.DialContext(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	if status, text := request(token, http.MethodPost, "/api/v1/namespaces/default/configmaps",
		`{"metadata":{"name":"from-the-console"}}`); status != http.StatusCreated {
		t.Fatalf("%d %s", status, text)
	}
	for {
		var message []byte
		if err := websocket.Message.Receive(socket, &message); err != nil {
			t.Fatal(err)
		}
		var event struct {
			Type   string
			Object corev1.ConfigMap
		}
		if err := json.Unmarshal(message, &event); err != nil {
			t.Fatalf("%s: %v", message, err)
		}
		if event.Type == "ADDED" && event.Object.Name == "from-the-console" {
			break
		}
	}

	// Somebody of another account has no such cluster, and somebody of the account has what access entries say.
	var other, made struct {
		AccessKey struct{ AccessKeyId, SecretAccessKey string }
	}
	d.Run("", harness.Binary(t), "account", "create", "444455556666", "--data-dir", d.Dir)
	env := d.Run("", harness.Binary(t), "env", "--account", "444455556666", "--data-dir", d.Dir)
	for line := range strings.Lines(env) {
		name, value, _ := strings.Cut(strings.TrimSpace(strings.TrimPrefix(line, "export ")), "=")
		switch name {
		case "AWS_ACCESS_KEY_ID":
			other.AccessKey.AccessKeyId = value
		case "AWS_SECRET_ACCESS_KEY":
			other.AccessKey.SecretAccessKey = value
		}
	}
	d.AWS(nil, "iam", "create-user", "--user-name", "alice")
	d.AWS(&made, "iam", "create-access-key", "--user-name", "alice")
	for _, test := range []struct {
		name, id, secret string
		status           int
		text             string
	}{
		{"of another account", other.AccessKey.AccessKeyId, other.AccessKey.SecretAccessKey, http.StatusNotFound,
			`account 444455556666 has no cluster`},
		{"without an access entry", made.AccessKey.AccessKeyId, made.AccessKey.SecretAccessKey,
			http.StatusUnauthorized, "Unauthorized"},
	} {
		token := d.Token("web", "AWS_ACCESS_KEY_ID="+test.id, "AWS_SECRET_ACCESS_KEY="+test.secret)
		if status, text := request(token, http.MethodGet, "/api/v1/namespaces/default", ""); status != test.status ||
			!strings.Contains(text, test.text) {
			t.Errorf("%s: %d %s, want %d %s", test.name, status, text, test.status, test.text)
		}
	}
}
