package cloudinit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coracle-eks/coracle/internal/guest/imds"
	"github.com/coracle-eks/coracle/internal/guest/rootfs/boot"
)

// networkTimeout is the time that a machine waits for its network before it boots without it.
const networkTimeout = 2 * time.Minute

// Local waits until eth0 has its address and the metadata service answers, and sets up the name service as the DHCP
// lease determines. The machine of a Fargate pod has no metadata.
func (s *Stage) Local(ctx context.Context) error {
	closeLog, err := s.openLog("init-local")
	if err != nil {
		return err
	}
	defer closeLog()
	ctx, cancel := context.WithTimeout(ctx, networkTimeout)
	defer cancel()
	if err := waitForAddress(ctx, "eth0"); err != nil {
		return err
	}
	if !boot.IsFargate(s.Root) {
		if err := s.IMDS.Wait(ctx); err != nil && !errors.Is(err, imds.ErrDisabled) {
			return fmt.Errorf("the instance metadata service is not reachable: %w", err)
		}
	}
	lease, err := s.loadLease(ctx)
	if err != nil {
		return fmt.Errorf("find the name servers of the VPC: %w", err)
	}
	return os.WriteFile(s.rootPath("/etc/resolv.conf"), resolvConf(lease), 0o644)
}

// waitForAddress waits until a link has an IPv4 or a global IPv6 address.
func waitForAddress(ctx context.Context, link string) error {
	for {
		if i, err := net.InterfaceByName(link); err == nil {
			addresses, err := i.Addrs()
			if err != nil {
				return err
			}
			if slices.ContainsFunc(addresses, func(a net.Addr) bool {
				p, err := netip.ParsePrefix(a.String())
				return err == nil && p.Addr().IsGlobalUnicast()
			}) {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s has no address after %s: is the network interface of the instance attached?", link,
				networkTimeout)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// loadLease returns the DHCP lease: the one that the host wrote, or one made from metadata.
func (s *Stage) loadLease(ctx context.Context) (boot.Lease, error) {
	var lease boot.Lease
	data, err := os.ReadFile(s.rootPath(boot.HostDir + "/" + boot.DHCPFile))
	if err == nil {
		if err := json.Unmarshal(data, &lease); err != nil {
			return lease, fmt.Errorf("%s: %w", boot.DHCPFile, err)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return lease, err
	}
	if len(lease.Nameservers) == 0 {
		lease.Nameservers = []string{"169.254.169.253"}
		if mac, err := s.IMDS.Meta(ctx, "mac"); err == nil {
			cidr, err := s.IMDS.Meta(ctx, "network/interfaces/macs/"+mac+"/vpc-ipv4-cidr-block")
			if p, parseErr := netip.ParsePrefix(cidr); err == nil && parseErr == nil {
				lease.Nameservers = []string{p.Masked().Addr().Next().Next().String()}
			}
		}
	}
	if lease.DomainName == "" {
		if region, err := s.IMDS.Meta(ctx, "placement/region"); err == nil {
			lease.DomainName = region + ".compute.internal"
			if region == "us-east-1" {
				lease.DomainName = "ec2.internal"
			}
		}
	}
	return lease, nil
}

func resolvConf(l boot.Lease) []byte {
	var b strings.Builder
	b.WriteString("; written by DHCP\n")
	if l.DomainName != "" {
		fmt.Fprintf(&b, "search %s\n", l.DomainName)
	}
	b.WriteString("options timeout:2 attempts:5\n")
	for _, n := range l.Nameservers {
		fmt.Fprintf(&b, "nameserver %s\n", n)
	}
	return []byte(b.String())
}

// setHostname gives the machine its name: the one given, or that of its metadata.
func (s *Stage) setHostname(ctx context.Context, name string) error {
	if name == "" {
		var err error
		if name, err = s.IMDS.Meta(ctx, "local-hostname"); errors.Is(err, imds.ErrDisabled) ||
			errors.Is(err, imds.ErrNotFound) {
			return nil // it keeps the one that the host gave it
		} else if err != nil {
			return err
		}
		if kept := strings.TrimSpace(readAll(s.rootPath("/etc/hostname"))); kept != "" &&
			fileExists(s.rootPath(cloudDir+"/instance/sem/config_init")) {
			name = kept // given by cloud-config at the first boot, or by hand since
		}
	}
	if err := os.WriteFile(s.rootPath("/etc/hostname"), []byte(name+"\n"), 0o644); err != nil {
		return err
	}
	if s.Root != "" {
		return nil
	}
	if err := setKernelHostname(name); err != nil {
		return fmt.Errorf("set the host name %s: %w", name, err)
	}
	return nil
}

// user is an entry of the key users.
type userEntry struct {
	Name              string   `json:"name"`
	SSHAuthorizedKeys []string `json:"ssh_authorized_keys"`
	Shell             string   `json:"shell"`
	HomeDir           string   `json:"homedir"`
}

// createUsers makes the users of cloud-config and gives them, and the default user, their keys.
func (s *Stage) createUsers(ctx context.Context, c config) {
	s.authorizedKeys(ctx, "ec2-user", c.SSHAuthorizedKeys)
	for _, raw := range c.Users {
		var u userEntry
		if json.Unmarshal(raw, &u) != nil || u.Name == "" {
			continue // "default"
		}
		if err := s.addUser(u); err != nil {
			s.recordWarning(true, "cc_users_groups", "%v", err)
			continue
		}
		s.authorizedKeys(ctx, u.Name, u.SSHAuthorizedKeys)
	}
}

// addUser adds a user with a group of its own, unless there is one of that name.
func (s *Stage) addUser(u userEntry) error {
	if strings.ContainsAny(u.Name, ":/\n ") {
		return fmt.Errorf("users: %q is no user name", u.Name)
	}
	id := 1001
	for _, line := range strings.Split(readAll(s.rootPath("/etc/passwd")), "\n") {
		fields := strings.Split(line, ":")
		if fields[0] == u.Name {
			return nil
		}
		if len(fields) > 2 {
			if n, err := strconv.Atoi(fields[2]); err == nil && n >= id && n < 60000 {
				id = n + 1
			}
		}
	}
	if u.HomeDir == "" {
		u.HomeDir = "/home/" + u.Name
	}
	if u.Shell == "" {
		u.Shell = "/bin/bash"
	}
	for file, line := range map[string]string{
		"/etc/passwd": fmt.Sprintf("%s:x:%d:%d::%s:%s\n", u.Name, id, id, u.HomeDir, u.Shell),
		"/etc/group":  fmt.Sprintf("%s:x:%d:\n", u.Name, id), "/etc/shadow": u.Name + ":!!:19000:0:99999:7:::\n",
	} {
		f, err := os.OpenFile(s.rootPath(file), os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o644)
		if err != nil {
			return err
		}
		_, err = f.WriteString(line)
		if closeErr := f.Close(); err == nil {
			err = closeErr
		}
		if err != nil {
			return err
		}
	}
	if err := os.MkdirAll(s.rootPath(u.HomeDir), 0o700); err != nil {
		return err
	}
	return os.Chown(s.rootPath(u.HomeDir), id, id)
}

// authorizedKeys records the SSH keys of a user, for the default user with the instance's key pair. Nothing listens for
// SSH: "coracle exec" is the way in.
func (s *Stage) authorizedKeys(ctx context.Context, name string, keys []string) {
	if name == "ec2-user" {
		if key, err := s.IMDS.Meta(ctx, "public-keys/0/openssh-key"); err == nil && key != "" {
			keys = append([]string{key}, keys...)
		}
	}
	if len(keys) == 0 {
		return
	}
	home, uid := "", 0
	for _, line := range strings.Split(readAll(s.rootPath("/etc/passwd")), "\n") {
		if f := strings.Split(line, ":"); len(f) > 5 && f[0] == name {
			home = f[5]
			uid, _ = strconv.Atoi(f[2])
		}
	}
	if home == "" {
		return
	}
	dir := s.rootPath(home + "/.ssh")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		s.recordWarning(false, "cc_ssh", "%v", err)
		return
	}
	if err := os.WriteFile(dir+"/authorized_keys", []byte(strings.Join(keys, "\n")+"\n"), 0o600); err != nil {
		s.recordWarning(false, "cc_ssh", "%v", err)
	}
	_ = os.Chown(dir, uid, uid)
	_ = os.Chown(dir+"/authorized_keys", uid, uid)
}
