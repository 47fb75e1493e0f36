package cli

// RecordFormats and ReportFormats are the names of all formats.
func RecordFormats() []string { return formatNames(recordFormats()) }

// ReportFormats: see RecordFormats.
func ReportFormats() []string { return formatNames(reportFormats(nil)) }

func formatNames(list []format) (names []string) {
	for _, f := range list {
		names = append(names, f.name)
	}
	return names
}
