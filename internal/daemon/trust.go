package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"slices"

	"github.com/coracle-eks/coracle/internal/datadir"
	"github.com/coracle-eks/coracle/internal/host/trust"
	"github.com/coracle-eks/coracle/internal/pki"
)

// SystemAuthority returns the certificate by which the system's trust store trusts the daemon of dir, PEM. It is good
// for AWS's names and those of this host alone: whoever gets hold of the daemon's key cannot pretend to be anybody
// else. The error is fs.ErrNotExist for a directory that no daemon has run in.
func SystemAuthority(dir datadir.Dir) ([]byte, error) {
	s, err := dir.ReadSettings()
	if err != nil {
		return nil, err
	}
	authority, err := pki.ReadAuthority(authorityFiles(dir))
	if err != nil {
		return nil, err
	}
	host := newCertificates(authority, s.Listen, s.AdvertiseAddress)
	addresses := []*net.IPNet{
		{IP: net.IPv4(127, 0, 0, 0).To4(), Mask: net.CIDRMask(8, 32)},
		{IP: net.IPv6loopback, Mask: net.CIDRMask(128, 128)},
	}
	for _, ip := range host.ips {
		if !ip.IsLoopback() {
			if v4 := ip.To4(); v4 != nil {
				ip = v4
			}
			addresses = append(addresses, &net.IPNet{IP: ip, Mask: net.CIDRMask(8*len(ip), 8*len(ip))})
		}
	}
	if public, err := netip.ParsePrefix(s.PublicRange); err == nil {
		addresses = append(addresses, &net.IPNet{IP: public.Masked().Addr().AsSlice(),
			Mask: net.CIDRMask(public.Bits(), public.Addr().BitLen())})
	}
	return authority.Constrain(slices.Concat(awsDomains, host.hosts), addresses)
}

func authorityFiles(dir datadir.Dir) (certificate, key string) {
	return dir.Join("pki", "ca.crt"), dir.Join("pki", "ca.key")
}

// WriteBundle writes the file that "coracle env" names in SSL_CERT_FILE and AWS_CA_BUNDLE, and returns its path. It has
// what programs trust without Coracle, which configured names if it is not empty, and the authorities of the daemon and
// of the others of root on this host: the name of an issuer leads to one of them. And it has the authority of AWS
// Certificate Manager.
func WriteBundle(dir datadir.Dir, s datadir.Settings, configured string) (string, error) {
	acm, err := os.ReadFile(certificateAuthorityFile(dir))
	if errors.Is(err, fs.ErrNotExist) { // an older daemon has made the directory
		return dir.Bundle(), writeTrusted(dir.Bundle(), dir, s, configured)
	}
	if err != nil {
		return "", err
	}
	return dir.Bundle(), writeTrusted(dir.Bundle(), dir, s, configured, acm)
}

// writeTrusted writes what programs trust without Coracle, the authorities of the daemons, and more to a file.
func writeTrusted(file string, dir datadir.Dir, s datadir.Settings, configured string, more ...[]byte) error {
	certificate, _ := authorityFiles(dir)
	own, err := os.ReadFile(certificate)
	if err != nil {
		return err
	}
	all := append([][]byte{own}, more...)
	if RealMachines(s) {
		others, err := trust.Published()
		if err != nil && !errors.Is(err, fs.ErrPermission) {
			return err
		}
		all = append(all, others...)
	}
	return trust.WriteBundle(file, configured, all...)
}

// publishAuthority writes the authority of the daemon to where clients and API servers look for it.
func (d *daemon) publishAuthority() error {
	if RealMachines(d.settings) {
		if err := trust.Publish(d.dir.Owner(), d.authority.PEM); err != nil {
			return fmt.Errorf("publish the certificate authority: %w", err)
		}
	}
	if _, err := WriteBundle(d.dir, d.settings, os.Getenv("SSL_CERT_FILE")); err != nil {
		return fmt.Errorf("write the certificates that clients trust: %w", err)
	}
	if err := writeTrusted(d.dir.ProviderRoots(), d.dir, d.settings, os.Getenv("SSL_CERT_FILE")); err != nil {
		return fmt.Errorf("write the certificates that API servers trust: %w", err)
	}
	return nil
}
