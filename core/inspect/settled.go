package inspect

import (
	"net/http"
	"time"

	"github.com/auth19/idem/core/store"
)

// settledPage is the list of the last settlements.
type settledPage struct {
	Own  bool
	Rows []settledRow
	More bool // there may be more
}

// settledRow is a line of it.
type settledRow struct {
	store.SettledOperation
	Mark mark
	Refs []store.Ref
	At   time.Time
}

// settledList lists the last settlements, or those of this operator.
func (v *request) settledList() error {
	page := settledPage{Own: v.r.URL.Query().Get("by") == "me"}
	all, err := v.operator.LastSettled(v.r.Context(), page.Own, pageSize)
	if err != nil {
		return err
	}
	page.More = len(all) == pageSize
	ids := make([]store.ID, 0, len(all))
	for _, s := range all {
		ids = append(ids, s.ID)
	}
	refs := v.references(ids)
	for _, s := range all {
		page.Rows = append(page.Rows, settledRow{s, settledMark(s.SettlementRecord), refs[s.ID], s.At})
	}
	return v.show(http.StatusOK, "settled", "Settled lately", "settled", page)
}

func settledMark(s store.SettlementRecord) mark {
	switch s.AfterState {
	case store.Free:
		return mark{"over", "not applied"}
	case store.Running:
		return mark{"running", "tried again"}
	case store.Unknown:
		if s.Marked() {
			return mark{"unknown", "marked"}
		}
		return mark{"unknown", "given up"}
	}
	return mark{"completed", "applied"}
}
