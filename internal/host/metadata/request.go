package metadata

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"syscall"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

const (
	tokenPath = "/latest/api/token"
	tokenTTL  = "X-Aws-Ec2-Metadata-Token-Ttl-Seconds"
	tokenName = "X-Aws-Ec2-Metadata-Token"
)

// longest is the maximum lifetime of a token in seconds: six hours.
const longest = 21600

// versions are those of the tree of metadata. All are served alike.
var versions = []string{
	"1.0", "2007-01-19", "2007-03-01", "2007-08-29", "2007-10-10", "2007-12-15", "2008-02-01", "2008-09-01",
	"2009-04-04", "2011-01-01", "2011-05-01", "2012-01-12",
	"2014-02-25", "2014-11-05", "2015-10-20", "2016-04-19", "2016-06-30", "2016-09-02", "2018-03-28", "2018-08-17",
	"2018-09-24", "2019-10-01", "2020-10-27", "2021-01-03",
	"2021-03-23", "2021-07-15", "2022-09-24", "2024-04-11", "latest",
}

// mostRead is how many bytes of records are read for a request, which may be any process's: it is more than what a VPC
// may have of subnets, and an instance of interfaces, security groups and addresses.
const mostRead = 8 << 20

// serveRequest serves one request that came out of the VPC with the key.
func (s *Service) serveRequest(w http.ResponseWriter, r *http.Request, vpcKey string) {
	w.Header().Set("Server", "EC2ws")
	r = r.WithContext(store.Bounded(r.Context(), mostRead))
	instance, err := s.resolveInstance(r, vpcKey)
	if errors.Is(err, store.ErrNotFound) {
		writeError(w, http.StatusNotFound)
		return
	}
	if errors.Is(err, errMoving) { // clients try again
		writeError(w, http.StatusServiceUnavailable)
		return
	}
	if err != nil {
		s.log.Error("the metadata service could not tell who asks", "from", r.RemoteAddr, "error", err)
		writeError(w, http.StatusServiceUnavailable)
		return
	}
	if instance.Fargate != nil {
		s.serveFargate(w, r, instance)
		return
	}
	if r.TLS != nil { // instances have the service without TLS alone, as on EC2
		writeError(w, http.StatusNotFound)
		return
	}
	if instance.Metadata.HTTPEndpoint == ec2types.InstanceMetadataEndpointStateDisabled {
		writeError(w, http.StatusForbidden)
		return
	}
	switch {
	case r.Method == http.MethodPut:
		s.serveToken(w, r, instance)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		writeError(w, http.StatusMethodNotAllowed)
	default:
		s.serveGet(w, r, instance)
	}
}

// serveToken makes a session token. Its answer may cross no more routers than the instance's hop limit says, so that it
// does not get to those for whom the instance only forwards. It is the last on its connection: the kernel sends what is
// not acknowledged again, and would do so with whatever limit the connection has by then.
func (s *Service) serveToken(w http.ResponseWriter, r *http.Request, instance record.Instance) {
	if r.URL.Path != tokenPath {
		writeError(w, http.StatusMethodNotAllowed)
		return
	}
	// An open proxy on the instance would add this header.
	if len(r.Header.Values("X-Forwarded-For")) > 0 {
		writeError(w, http.StatusForbidden)
		return
	}
	seconds, err := strconv.Atoi(strings.TrimSpace(r.Header.Get(tokenTTL)))
	if err != nil || seconds < 1 || seconds > longest {
		writeError(w, http.StatusBadRequest)
		return
	}
	token, err := s.secret.newToken(instance.ID, s.o.Clock.Now().Unix()+int64(seconds))
	if err == nil {
		err = limitHops(r, int(instance.Metadata.HTTPPutResponseHopLimit))
	}
	if err != nil {
		s.log.Error("could not make a metadata token", "instance", instance.ID, "error", err)
		writeError(w, http.StatusInternalServerError)
		return
	}
	w.Header().Set(tokenTTL, strconv.Itoa(seconds))
	w.Header().Set("Connection", "close")
	writeContent(w, "text/plain", []byte(token))
}

// serveGet serves a GET.
func (s *Service) serveGet(w http.ResponseWriter, r *http.Request, instance record.Instance) {
	if token := r.Header.Values(tokenName); len(token) > 0 {
		left, err := s.secret.verifyToken(token[0], instance.ID, s.o.Clock.Now().Unix())
		if err != nil {
			writeError(w, http.StatusUnauthorized)
			return
		}
		w.Header().Set(tokenTTL, strconv.FormatInt(left, 10))
	} else if instance.Metadata.HTTPTokens == ec2types.HttpTokensStateRequired {
		writeError(w, http.StatusUnauthorized)
		return
	}
	path := strings.Trim(r.URL.Path, "/")
	version, rest, _ := strings.Cut(path, "/")
	switch {
	case path == "":
		writeContent(w, "text/plain", []byte(strings.Join(versions, "\n")))
		return
	case !slices.Contains(versions, version):
		writeError(w, http.StatusNotFound)
		return
	}
	tree, err := s.buildTree(r.Context(), instance)
	if err != nil {
		s.log.Error("could not make an instance's metadata", "instance", instance.ID, "error", err)
		writeError(w, http.StatusInternalServerError)
		return
	}
	kind, content, err := tree.lookupPath(r.Context(), rest, strings.HasSuffix(r.URL.Path, "/"))
	switch {
	case errors.Is(err, errNoEntry):
		writeError(w, http.StatusNotFound)
	case err != nil:
		s.log.Error("could not make an instance's metadata", "instance", instance.ID, "path", rest, "error", err)
		writeError(w, http.StatusInternalServerError)
	default:
		writeContent(w, kind, content)
	}
}

func writeContent(w http.ResponseWriter, kind string, content []byte) {
	w.Header().Set("Accept-Ranges", "none")
	writeStatus(w, http.StatusOK, kind, content)
}

func writeStatus(w http.ResponseWriter, status int, kind string, content []byte) {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Length", strconv.Itoa(len(content)))
	w.WriteHeader(status)
	_, _ = w.Write(content) // who asked is gone
}

// writeError answers with the page that EC2 has for a status.
func writeError(w http.ResponseWriter, status int) {
	title := fmt.Sprintf("%d - %s", status, http.StatusText(status))
	page := `<?xml version="1.0" encoding="iso-8859-1"?>
<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Transitional//EN"
	"http://www.w3.org/TR/xhtml1/DTD/xhtml1-transitional.dtd">
<html xmlns="http://www.w3.org/1999/xhtml" xml:lang="en" lang="en">
 <head>
  <title>` + title + `</title>
 </head>
 <body>
  <h1>` + title + `</h1>
 </body>
</html>
`
	w.Header().Set("Content-Type", "text/html")
	w.Header().Set("Content-Length", strconv.Itoa(len(page)))
	w.WriteHeader(status)
	_, _ = w.Write([]byte(page)) // who asked is gone
}

// limitHops sets how many routers packets of the request's connection may cross from now on.
func limitHops(r *http.Request, hops int) error {
	conn, ok := r.Context().Value(connection{}).(syscall.Conn)
	if !ok {
		return errors.New("the connection of a request is no socket")
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_TTL,
			hops)
	}); err != nil {
		return err
	}
	return failed
}

// resolveInstance returns the instance that sent a request, by its source address: an address of a network interface
// that is attached to the instance, or in a prefix that is delegated to one. It returns store.ErrNotFound when there is
// none.
func (s *Service) resolveInstance(r *http.Request, vpcKey string) (record.Instance, error) {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return record.Instance{}, err
	}
	from, err := netip.ParseAddr(host)
	if err != nil {
		return record.Instance{}, err
	}
	eni, err := s.interfaceAt(r.Context(), vpcKey, from.Unmap())
	if err != nil {
		return record.Instance{}, err
	}
	if eni.Attachment == nil || eni.Attachment.InstanceID == "" {
		return record.Instance{}, fmt.Errorf("the interface %s of no instance: %w", eni.ID, store.ErrNotFound)
	}
	key := keyScope(vpcKey) + eni.Attachment.InstanceID
	// The store says whose an address will be, the router whose it is: who has lost it may still send from it.
	if !s.o.Network.Carries(vpcKey, from.Unmap(), key) {
		return record.Instance{}, errMoving
	}
	row, err := record.Instances(s.o.Store).Get(r.Context(), key)
	return row.Value, err
}

// errMoving reports that an address does not yet belong to the interface that the store names.
var errMoving = errors.New("the address is being moved to another instance")

// interfaceAt returns the network interface that has an address in a VPC. The addresses in use are records of their
// subnets.
func (s *Service) interfaceAt(ctx context.Context, vpcKey string, address netip.Addr) (record.NetworkInterface, error) {
	subnets, err := record.SubnetsByVPC(s.o.Store).List(ctx, vpcKey)
	if err != nil {
		return record.NetworkInterface{}, err
	}
	vpcID := vpcKey[len(keyScope(vpcKey)):]
	for _, row := range subnets {
		subnet := row.Value
		cidr, err := netip.ParsePrefix(subnet.CIDR)
		if err != nil || !cidr.Contains(address) {
			continue
		}
		block, err := address.Prefix(28)
		if err != nil {
			continue
		}
		used, err := record.AddressBlocks(s.o.Store).Get(ctx, record.AddressBlockKey(subnet.Account, subnet.Region,
			subnet.ID, block.Addr().String()))
		if err != nil {
			return record.NetworkInterface{}, err
		}
		id := used.Value.PrefixOf
		if id == "" {
			id = used.Value.Addresses[address.String()]
		}
		if id == "" {
			return record.NetworkInterface{}, fmt.Errorf("nobody has %s: %w", address, store.ErrNotFound)
		}
		eni, err := record.NetworkInterfaces(s.o.Store).Get(ctx, keyScope(vpcKey)+id)
		return eni.Value, err
	}
	return record.NetworkInterface{}, fmt.Errorf("%s is in no subnet of %s: %w", address, vpcID, store.ErrNotFound)
}
