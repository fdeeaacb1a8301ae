package bench

import (
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/guest/podidentityagent"
	"github.com/coracle-eks/coracle/internal/testenv"
	"github.com/coracle-eks/coracle/test/harness"
)

// BenchmarkPodIdentityAgent asks the program of nodes for the credentials of pods, which it has once it was asked for
// them first.
func BenchmarkPodIdentityAgent(b *testing.B) {
	const pods, clients, each = 100, 8, 5000
	services := httptest.NewServer(http.HandlerFunc(answerAgent))
	defer services.Close()
	url, pid := startAgent(b, services.URL)
	transport := &http.Transport{MaxIdleConnsPerHost: clients}
	ask := func(token string) error {
		r, err := http.NewRequest(http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		r.Host, r.Header = podidentityagent.IPv4, http.Header{"Authorization": {token}}
		w, err := transport.RoundTrip(r)
		if err != nil {
			return err
		}
		defer w.Body.Close()
		if answer, err := io.ReadAll(w.Body); w.StatusCode != http.StatusOK || err != nil {
			return fmt.Errorf("the agent answers %d: %s %w", w.StatusCode, answer, err)
		}
		return nil
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		b.Fatal(err)
	}
	var tokens []string
	for i := range pods {
		tokens = append(tokens, podToken(b, key, i))
		eventually.Nil(b, "the agent answers", func() error { return ask(tokens[i]) })
	}
	took := make([][]time.Duration, clients)
	start := time.Now()
	var all sync.WaitGroup
	for c := range clients {
		all.Go(func() {
			for i := range each {
				began := time.Now()
				if err := ask(tokens[(c+i)%pods]); err != nil {
					b.Error(err)
					return
				}
				took[c] = append(took[c], time.Since(began))
			}
		})
	}
	all.Wait()
	rate := clients * each / time.Since(start).Seconds()
	var flat []time.Duration
	for _, t := range took {
		flat = append(flat, t...)
	}
	late := 1e3 * quantile(flat, 0.99).Seconds()
	size := residentMiB(b, pid)
	b.ReportMetric(rate, "requests/s")
	b.ReportMetric(late, "p99-ms")
	b.ReportMetric(size, "MiB")
	beside := fmt.Sprintf("%d clients on the same processors, %d pods", clients, pods)
	report(row{"the agent: credentials of warm pods", fmt.Sprintf("%.0f/s", rate), "5000/s", beside})
	report(row{"the agent: p99 of that", fmt.Sprintf("%.1f ms", late), "10 ms", beside})
	report(row{"the agent: resident memory after it", fmt.Sprintf("%.1f MiB", size), "25 MiB", ""})
}

// startAgent runs the agent until the benchmark ends. It takes the instance metadata service and EKS Auth at a URL.
func startAgent(b *testing.B, services string) (url string, pid int) {
	b.Helper()
	program := filepath.Join(b.TempDir(), "eks-pod-identity-agent")
	if err := os.Symlink(filepath.Join(testenv.Root(), "bin", "node", "coracle-node"), program); err != nil {
		b.Fatal(err)
	}
	port := func() string {
		_, port, _ := strings.Cut(harness.FreeAddress(b), ":")
		return port
	}
	own := port()
	agent := exec.Command(program, "server", "--cluster-name", "c", "--bind-hosts", "127.0.0.1", "--port", own,
		"--probe-port", port(), "--metrics-address", "127.0.0.1", "--metrics-port", port(), "--endpoint", services,
		"--max-service-qps", "1000", "--verbosity", "error")
	agent.Env = append(os.Environ(), "AWS_REGION="+harness.Region, "AWS_EC2_METADATA_SERVICE_ENDPOINT="+services)
	if err := agent.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = agent.Process.Kill() // it may have ended
		_ = agent.Wait()
	})
	return "http://127.0.0.1:" + own + "/v1/credentials", agent.Process.Pid
}

// answerAgent answers as the instance metadata service and as EKS Auth do.
func answerAgent(w http.ResponseWriter, r *http.Request) {
	const metadata = "/latest/meta-data/iam/security-credentials/"
	until := time.Now().Add(6 * time.Hour)
	switch {
	case r.URL.Path == "/latest/api/token":
		w.Header().Set("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "21600")
		_, _ = io.WriteString(w, "token")
	case r.URL.Path == metadata:
		_, _ = io.WriteString(w, "node")
	case strings.HasPrefix(r.URL.Path, metadata):
		fmt.Fprintf(w, `{"Code":"Success","AccessKeyId":"ASIANODE","SecretAccessKey":"s","Token":"t","Expiration":"%s"}`,
			until.UTC().Format(time.RFC3339))
	default:
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"credentials":{"accessKeyId":"ASIAPOD","secretAccessKey":"s","sessionToken":"%s","expiration":%d},
			"assumedRoleUser":{"arn":"arn:aws:sts::111122223333:assumed-role/app/eks-c-app","assumeRoleId":"AROA:eks-c-app"},
			"podIdentityAssociation":{"associationArn":"arn:aws:eks:::a","associationId":"a"},
			"subject":{"namespace":"default","serviceAccount":"app"},"audience":"pods.eks.amazonaws.com"}`,
			strings.Repeat("t", 800), until.Unix())
	}
}

// podToken returns a token as the API server gives one to a pod.
func podToken(b *testing.B, key *rsa.PrivateKey, pod int) string {
	b.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: key}, nil)
	if err != nil {
		b.Fatal(err)
	}
	text, err := jwt.Signed(signer).Claims(jwt.Claims{Subject: "system:serviceaccount:default:app", ID: strconv.Itoa(pod),
		Expiry: jwt.NewNumericDate(time.Now().Add(time.Hour))}).Serialize()
	if err != nil {
		b.Fatal(err)
	}
	return text
}

// residentMiB returns the memory of a process that is in RAM.
func residentMiB(b *testing.B, pid int) float64 {
	b.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	_, after, _ := strings.Cut(string(status), "VmRSS:")
	kibibytes, err := strconv.ParseFloat(strings.Fields(after)[0], 64)
	if err != nil {
		b.Fatal(err)
	}
	return kibibytes / 1024
}
