package webhook

import (
	"testing"

	"github.com/google/uuid"

	"github.com/tributary-hq/tributary/affiliate"
)

func TestPlaces(t *testing.T) {
	a, b := affiliate.WorkspaceID{UUID: uuid.New()}, affiliate.WorkspaceID{UUID: uuid.New()}
	type ask struct {
		workspace affiliate.WorkspaceID
		hanging   bool
		granted   int // of twelve
	}
	for _, tc := range []struct {
		name string
		asks []ask
	}{
		{"one workspace leaves a share to the next", []ask{{a, false, 6}}},
		{"two workspaces leave a share to the next", []ask{{a, false, 6}, {b, false, 4}}},
		{"hanging endpoints leave half to the others", []ask{{a, true, 6}, {b, true, 0}, {b, false, 4}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := newPlaces(12)
			for _, ask := range tc.asks {
				granted := 0
				for range 12 {
					if p.acquire(&placeRequest{workspace: ask.workspace, hanging: ask.hanging, granted: func() {}}) {
						granted++
					}
				}
				if granted != ask.granted {
					t.Fatalf("%d granted, want %d", granted, ask.granted)
				}
			}
		})
	}
}

func TestPlaces_AreGrantedInTheOrderOfRequests(t *testing.T) {
	p := newPlaces(2)
	var order []string
	request := func(name string, hanging bool) *placeRequest {
		r := &placeRequest{workspace: affiliate.WorkspaceID{UUID: uuid.New()}, hanging: hanging}
		r.granted = func() { order = append(order, name) }
		return r
	}
	first, second := request("first", true), request("second", false)
	if !p.acquire(first) || !p.acquire(second) {
		t.Fatal("places that are free are not granted")
	}
	hangs, third, canceled, fourth := request("hangs", true), request("third", false), request("canceled", false), request("fourth", false)
	for _, r := range []*placeRequest{hangs, third, canceled, fourth} {
		if p.acquire(r) {
			t.Fatal("more places than there are")
		}
	}
	p.cancel(canceled)
	p.release(second) // the other place is still with one that hangs
	p.release(first)
	p.release(third)
	if len(order) != 3 || order[0] != "third" || order[1] != "hangs" || order[2] != "fourth" {
		t.Errorf("granted %v", order)
	}
	p.cancel(fourth) // it was granted: its place is given back
	p.release(hangs)
	if n := p.inFlight(); n != 0 || len(p.byWorkspace) != 0 || p.takenByHanging != 0 {
		t.Errorf("%d places are taken", n)
	}
}
