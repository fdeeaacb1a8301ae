package controlplane

import (
	"cmp"
	"context"
	"slices"

	"github.com/coracle-eks/coracle/internal/pki"
	"github.com/coracle-eks/coracle/internal/record"
)

// The certificate authority of a cluster is replaced in three steps, each of which is an update that a user requests. A
// pass of the controller carries out the one that the cluster's record wants:
//
//  1. A successor is made, and every component trusts it beside the one that signs: an API server and other components
//     with another bundle take over, and clients get the bundle with DescribeCluster and kube-root-ca.crt.
//  2. The successor signs: all certificates are issued again, and the components reload them by themselves.
//  3. The former one is forgotten: components with another bundle take over.
//
// https://docs.aws.amazon.com/eks/latest/userguide/certificate-authority-rotation.html

// authorities are the certificate authorities that a control plane trusts, oldest first.
type authorities struct {
	all     []record.TrustedAuthority // without the ID of the initial one
	signing string
}

// bundle returns the certificates, PEM.
func (a authorities) bundle() []byte {
	var text []byte
	for _, authority := range a.all {
		text = append(text, authority.Certificate...)
	}
	return text
}

func parseAuthorities(s record.ControlPlaneSecrets) (authorities, error) {
	out := authorities{signing: s.CertificateAuthorityID}
	since := map[string]int64{}
	for _, a := range allAuthorities(s) {
		certificate, err := pki.ParseCertificate(a.Certificate)
		if err != nil {
			return out, err
		}
		since[a.ID] = certificate.NotBefore.Unix()
		out.all = append(out.all, record.TrustedAuthority{ID: a.ID, Certificate: a.Certificate})
	}
	// Certificates have seconds: of those of one second, the ID decides, and that of the initial one is empty. The order
	// must not depend on which of them signs, or activation would change the bundle.
	slices.SortFunc(out.all, func(a, b record.TrustedAuthority) int {
		return cmp.Or(cmp.Compare(since[a.ID], since[b.ID]), cmp.Compare(a.ID, b.ID))
	})
	return out, nil
}

// allAuthorities returns the certificate authorities of a record. The ID of the initial one is empty.
func allAuthorities(s record.ControlPlaneSecrets) []record.AuthorityKeys {
	return append([]record.AuthorityKeys{{ID: s.CertificateAuthorityID, Certificate: s.CertificateAuthority,
		Key: s.CertificateAuthorityKey}}, s.OtherAuthorities...)
}

// rotateAuthorities makes and removes certificate authorities in the record of the cluster's keys until it has those
// that the cluster is to have, and returns it.
func (c *Controller) rotateAuthorities(
	ctx context.Context, cluster record.Cluster, s record.ControlPlaneSecrets,
) (record.ControlPlaneSecrets, error) {
	made := map[string]record.AuthorityKeys{}
	has := func(all []record.AuthorityKeys, id string) bool {
		return slices.ContainsFunc(all, func(a record.AuthorityKeys) bool { return a.ID == id })
	}
	wanted, signing := wantedAuthorities(cluster)
	for _, id := range wanted {
		if has(allAuthorities(s), id) {
			continue
		}
		key, err := c.rsaKey()
		if err != nil {
			return s, err
		}
		authority, err := newAuthority(key, c.clock.Now())
		if err != nil {
			return s, err
		}
		made[id] = record.AuthorityKeys{ID: id, Certificate: authority.PEM, Key: authority.KeyPEM}
	}
	if len(made) == 0 && s.CertificateAuthorityID == signing && len(s.OtherAuthorities) == len(wanted)-1 {
		return s, nil
	}
	row, err := c.secrets.Modify(ctx, cluster.Key(), func(s *record.ControlPlaneSecrets) error {
		all := allAuthorities(*s)
		s.OtherAuthorities = nil
		for _, id := range wanted {
			i := slices.IndexFunc(all, func(a record.AuthorityKeys) bool { return a.ID == id })
			authority := made[id]
			if i >= 0 {
				authority = all[i]
			}
			if id == signing {
				s.CertificateAuthorityID = id
				s.CertificateAuthority, s.CertificateAuthorityKey = authority.Certificate, authority.Key
			} else {
				s.OtherAuthorities = append(s.OtherAuthorities, authority)
			}
		}
		return nil
	})
	if err != nil {
		return s, err
	}
	c.log.Info("the certificate authorities of a cluster change", "cluster", cluster.Name, "trusts", len(wanted))
	return row.Value, nil
}

// wantedAuthorities returns the IDs of the certificate authorities that a cluster is to trust, and that of the one that
// is to sign. The ID of the initial one is empty, as in the record of keys.
func wantedAuthorities(cluster record.Cluster) (all []string, signing string) {
	authorities, signing := cluster.Authorities()
	initial := cluster.InitialAuthorityID()
	for _, a := range authorities {
		if a.ID == initial {
			a.ID = ""
		}
		all = append(all, a.ID)
	}
	if signing == initial {
		signing = ""
	}
	return all, signing
}

// recordAuthorities records that all components trust the certificate authorities of the plane, and have certificates
// of the one that signs. A cluster that has always had one needs no record.
func (c *Controller) recordAuthorities(ctx context.Context, p plane) error {
	trusted := p.keys.trusted
	if len(trusted.all) == 1 && trusted.signing == "" && len(p.cluster.CertificateAuthorities) == 0 {
		return nil
	}
	initial := p.cluster.InitialAuthorityID()
	return c.observe(ctx, p.cluster, func(o *record.ControlPlane) {
		o.Authorities = slices.Clone(trusted.all)
		for i := range o.Authorities {
			o.Authorities[i].ID = cmp.Or(o.Authorities[i].ID, initial)
		}
		o.SigningAuthorityID = cmp.Or(trusted.signing, initial)
	})
}
