package acm

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/acm"
	"github.com/aws/aws-sdk-go-v2/service/acm/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// usualKeyTypes are the types of keys of the certificates that are listed when nobody asks for others.
var usualKeyTypes = []types.KeyAlgorithm{types.KeyAlgorithmRsa1024, types.KeyAlgorithmRsa2048}

// maxSummaryNames is how many names a certificate has in a list.
const maxSummaryNames = 100

// ListCertificates lists the certificates of the account in the region.
func (s *Service) ListCertificates(ctx context.Context, in *acm.ListCertificatesInput) (
	*acm.ListCertificatesOutput, error) {
	if (in.SortBy == "") != (in.SortOrder == "") {
		return nil, validation("SortBy and SortOrder must be specified together.")
	}
	at := placeOf(ctx)
	rows, err := s.certificates.List(ctx, store.Prefix(at.account, at.region))
	if err != nil {
		return nil, err
	}
	rows = slices.DeleteFunc(rows, func(row store.Row[record.Certificate]) bool { return !s.isListed(in, row.Value) })
	key := sortKey(in.SortOrder)
	if in.SortBy != "" {
		slices.SortFunc(rows, func(a, b store.Row[record.Certificate]) int {
			if key(a) < key(b) {
				return -1
			}
			return 1
		})
	}
	page, next, err := wire.Page(ctx, rows, in.MaxItems, in.NextToken, key)
	if err != nil {
		return nil, err
	}
	users, err := s.users(ctx, at)
	if err != nil {
		return nil, err
	}
	out := &acm.ListCertificatesOutput{CertificateSummaryList: []types.CertificateSummary{}, NextToken: next}
	for _, row := range page {
		out.CertificateSummaryList = append(out.CertificateSummaryList,
			s.summary(row.Value, len(users[row.Value.ARN()]) > 0))
	}
	return out, nil
}

// sortKey returns what certificates are in the order of: their keys without an order, else when they were created.
func sortKey(order types.SortOrder) func(store.Row[record.Certificate]) string {
	return func(row store.Row[record.Certificate]) string {
		at := row.Value.CreatedAt.UnixNano()
		switch order {
		case types.SortOrderAscending:
		case types.SortOrderDescending:
			at = math.MaxInt64 - at
		default:
			return row.Key
		}
		return fmt.Sprintf("%020d %s", at, row.Key)
	}
}

// isListed reports whether a request asks for a certificate.
func (s *Service) isListed(in *acm.ListCertificatesInput, c record.Certificate) bool {
	var filters types.Filters
	if in.Includes != nil {
		filters = *in.Includes
	}
	keyTypes := filters.KeyTypes
	if len(keyTypes) == 0 {
		keyTypes = usualKeyTypes
	}
	has := func(own []types.KeyUsageName) func(types.KeyUsageName) bool {
		return func(u types.KeyUsageName) bool { return u == types.KeyUsageNameAny || slices.Contains(own, u) }
	}
	hasExtended := func(u types.ExtendedKeyUsageName) bool {
		return u == types.ExtendedKeyUsageNameAny || slices.Contains(c.ExtendedKeyUsages, u) ||
			u == types.ExtendedKeyUsageNameNone && len(c.ExtendedKeyUsages) == 0
	}
	return slices.Contains(keyTypes, c.KeyAlgorithm) &&
		isAny(in.CertificateStatuses, s.statusOf(c)) &&
		isAny(in.CertificateKeyPairOrigins, originOf(c)) &&
		(len(filters.KeyUsage) == 0 || slices.ContainsFunc(filters.KeyUsage, has(c.KeyUsages))) &&
		(len(filters.ExtendedKeyUsage) == 0 || slices.ContainsFunc(filters.ExtendedKeyUsage, hasExtended)) &&
		filters.ExportOption != types.CertificateExportEnabled && filters.ManagedBy == ""
}

// isAny reports whether a value is one of those that are asked for: any, where none is.
func isAny[T comparable](asked []T, value T) bool {
	return len(asked) == 0 || slices.Contains(asked, value)
}

// summary returns a certificate as a list has it.
func (s *Service) summary(c record.Certificate, inUse bool) types.CertificateSummary {
	names := c.SubjectAlternativeNames
	x := types.CertificateSummary{
		CertificateArn: new(c.ARN()), DomainName: &c.DomainName, Type: c.Type, Status: s.statusOf(c),
		KeyAlgorithm: c.KeyAlgorithm, KeyUsages: c.KeyUsages, ExtendedKeyUsages: c.ExtendedKeyUsages,
		CreatedAt: &c.CreatedAt, InUse: &inUse, Exported: new(false), RenewalEligibility: s.eligibility(c, inUse),
		CertificateKeyPairOrigin: originOf(c), SubjectAlternativeNameSummaries: names[:min(len(names), maxSummaryNames)],
		HasAdditionalSubjectAlternativeNames: new(len(names) > maxSummaryNames),
	}
	if c.Type == types.CertificateTypeAmazonIssued {
		x.ExportOption = types.CertificateExportDisabled
	}
	if !c.NotAfter.IsZero() {
		x.NotBefore, x.NotAfter = &c.NotBefore, &c.NotAfter
	}
	if !c.IssuedAt.IsZero() {
		x.IssuedAt = &c.IssuedAt
	}
	if !c.ImportedAt.IsZero() {
		x.ImportedAt = &c.ImportedAt
	}
	return x
}
