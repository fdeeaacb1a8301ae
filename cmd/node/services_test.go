//go:build linux

package main

import (
	"archive/tar"
	"bytes"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/coracle-eks/coracle/internal/host/machine/machinetest"
	"github.com/coracle-eks/coracle/internal/pki"
)

// serve puts the machine's surroundings into its network namespace.
func (m *machine) serve(network, dir string) {
	t := m.t
	listen := func(address string) net.Listener {
		var l net.Listener
		if err := machinetest.In(network,
			func() (err error) { l, err = net.Listen("tcp", address); return err }); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return l
	}
	if err := machinetest.In(network, func() error {
		for name, addresses := range map[string][]string{"lo": {imdsIP + "/32"}, "eth0": {privateIP + "/24"}} {
			link, err := netlink.LinkByName(name)
			if err != nil {
				return err
			}
			for _, a := range addresses {
				p := netip.MustParsePrefix(a)
				if err := netlink.AddrAdd(link,
					&netlink.Addr{IPNet: &net.IPNet{IP: p.Addr().AsSlice(),
						Mask: net.CIDRMask(p.Bits(), 32)}}); err != nil {
					return err
				}
			}
			if err := netlink.LinkSetUp(link); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}

	authority, err := pki.OpenAuthority(filepath.Join(dir, "pki"), "ca", "kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Issue(pki.Leaf{CommonName: "kube-apiserver", IPs: []net.IP{net.ParseIP(privateIP),
		net.ParseIP(imdsIP)}, Server: true})
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := tls.X509KeyPair(pair.Certificate, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	m.authority = authority.PEM
	m.ca = base64.StdEncoding.EncodeToString(authority.PEM)

	images := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	push := httptest.NewServer(images)
	defer push.Close()
	image := pauseImage(t)
	host, _ := url.Parse(push.URL)
	reference, err := name.ParseReference(host.Host + "/eks/pause:3.10")
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(reference, image); err != nil {
		t.Fatal(err)
	}

	api, apis, metadata := listen(privateIP+":0"), listen(privateIP+":0"), listen(imdsIP+":80")
	m.endpoint, m.aws = "https://"+api.Addr().String(), "http://"+apis.Addr().String()
	start := func(l net.Listener, h http.Handler) {
		s := &http.Server{Handler: h}
		t.Cleanup(func() { s.Close() })
		go func() { _ = s.Serve(l) }()
	}
	start(tls.NewListener(api, &tls.Config{Certificates: []tls.Certificate{certificate}}), http.HandlerFunc(m.cluster))
	start(metadata, http.HandlerFunc(m.metadata))
	start(tls.NewListener(listen(imdsIP+":443"), &tls.Config{Certificates: []tls.Certificate{certificate}}),
		http.HandlerFunc(m.metadata))
	start(apis, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/v2/") {
			images.ServeHTTP(w, r)
			return
		}
		m.api(w, r)
	}))
}

// pauseImage returns an image of the program pause.
func pauseImage(t testing.TB) v1.Image {
	t.Helper()
	path, err := programs(t)("pause")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	if err := w.WriteHeader(&tar.Header{Name: "pause", Mode: 0o755, Size: int64(len(program))}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(program); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	image, err := mutate.AppendLayers(empty.Image, static.NewLayer(archive.Bytes(), types.DockerUncompressedLayer))
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Config.Entrypoint = "linux", runtime.GOARCH, []string{"/pause"}
	if image, err = mutate.ConfigFile(image, config); err != nil {
		t.Fatal(err)
	}
	return image
}

// fargateToken is what the credentials of a Fargate machine are given for.
const fargateToken = "0123456789abcdef"

// metadata serves the instance metadata.
func (m *machine) metadata(w http.ResponseWriter, r *http.Request) {
	if m.isFargate {
		if r.TLS == nil || r.URL.Path != "/fargate/credentials" || r.Header.Get("Authorization") != fargateToken {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, `{"AccessKeyId":"ASIAFARGATE","SecretAccessKey":"secret","Token":"session",`+
			`"Expiration":"2099-01-01T00:00:00Z"}`)
		return
	}
	if r.Method == http.MethodPut {
		fmt.Fprint(w, "token")
		return
	}
	answers := map[string]string{
		"latest/user-data": m.userData, "latest/meta-data/instance-id": instanceID,
		"latest/meta-data/local-hostname": privateDNS, "latest/meta-data/local-ipv4": privateIP,
		"latest/meta-data/mac":              "02:00:00:00:00:04",
		"latest/meta-data/placement/region": region, "latest/meta-data/placement/availability-zone": region + "a",
		"latest/meta-data/instance-type": "m5.large", "latest/meta-data/services/domain": "amazonaws.com",
		"latest/meta-data/network/interfaces/macs/02:00:00:00:00:04/vpc-ipv4-cidr-block":  "10.0.0.0/16",
		"latest/meta-data/network/interfaces/macs/02:00:00:00:00:04/vpc-ipv4-cidr-blocks": "10.0.0.0/16",
		"latest/meta-data/public-keys/0/openssh-key":                                      "ssh-ed25519 AAAA key",
		"latest/meta-data/iam/security-credentials/":                                      "node",
		"latest/meta-data/iam/security-credentials/node":                                  `{"Code":"Success","AccessKeyId":"ASIAEXAMPLE","SecretAccessKey":"secret","Token":"session","Expiration":"2099-01-01T00:00:00Z"}`,
		"latest/dynamic/instance-identity/document": `{"instanceId":"` + instanceID + `","region":"` + region +
			`","instanceType":"m5.large","availabilityZone":"` + region +
			`a","accountId":"111122223333","privateIp":"` + privateIP + `"}`,
	}
	path := strings.TrimPrefix(r.URL.Path, "/")
	answer, ok := answers[path]
	if !ok {
		answer, ok = answers[path+"/"]
	}
	if !ok || answer == "" {
		http.NotFound(w, r)
		return
	}
	fmt.Fprint(w, answer)
}

// api serves the AWS APIs: DescribeCluster and DescribeInstances.
func (m *machine) api(w http.ResponseWriter, r *http.Request) {
	if !strings.HasPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 Credential=ASIAEXAMPLE/") {
		http.Error(w, "not signed", http.StatusForbidden)
		return
	}
	body, _ := io.ReadAll(r.Body)
	m.mu.Lock()
	m.asked = append(m.asked, r.Method+" "+r.URL.Path+" "+string(body))
	m.mu.Unlock()
	switch {
	case r.URL.Path == "/clusters/demo":
		fmt.Fprintf(w,
			`{"cluster":{"name":"demo","status":"ACTIVE","endpoint":%q,"certificateAuthority":{"data":%q},"kubernetesNetworkConfig":{"serviceIpv4Cidr":"172.20.0.0/16","ipFamily":"ipv4"}}}`, m.endpoint, m.ca)
	case strings.HasPrefix(r.URL.Path, "/clusters/"):
		w.Header().Set("X-Amzn-Errortype", "ResourceNotFoundException")
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprintf(w, `{"message":"No cluster found for name: %s."}`, strings.TrimPrefix(r.URL.Path, "/clusters/"))
	default:
		fmt.Fprint(w, `<DescribeInstancesResponse><reservationSet><item><instancesSet><item><privateDnsName>`+
			privateDNS+`</privateDnsName></item></instancesSet></item></reservationSet></DescribeInstancesResponse>`)
	}
}

// cluster serves an API server that accepts nodes and supports nothing else.
func (m *machine) cluster(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.token = r.Header.Get("Authorization")
	if r.Method == http.MethodPost && r.URL.Path == "/api/v1/nodes" {
		if object, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil); err == nil {
			if n, ok := object.(*corev1.Node); ok {
				m.nodes = append(m.nodes, n)
			}
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusForbidden)
	fmt.Fprint(w,
		`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"not today"}`)
}
