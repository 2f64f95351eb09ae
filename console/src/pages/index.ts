// The list of pages. A new page is a file in this folder and a line here.
import type { FunctionComponent } from "preact";
import { ChangedPage } from "./changed.tsx";
import { CitationsPage } from "./citations.tsx";
import { ComparePage } from "./compare.tsx";
import { OverviewPage } from "./overview.tsx";
import { RecordPage } from "./record.tsx";
import { RecordsPage } from "./records.tsx";
import { RunPage } from "./run.tsx";
import { RunDAGPage } from "./rundag.tsx";
import { RunsPage } from "./runs.tsx";
import { SearchPage } from "./search.tsx";
import { PassagePage, SourcePage, SubjectPage } from "./sources.tsx";
import { StoriesPage } from "./stories.tsx";
import { TimelinePage } from "./timeline.tsx";
import { UnstablePage } from "./unstable.tsx";

export interface Page {
  name: string; // the second element of its address
  title: string; // of the browser's tab, and in the navigation
  component: FunctionComponent;
  shown?: boolean; // in the navigation
  covers?: string[]; // names of pages for which the navigation marks this one
}

export const pages: Page[] = [
  { name: "", title: "Overview", component: OverviewPage, shown: true },
  { name: "changed", title: "What changed", component: ChangedPage, shown: true, covers: ["unstable", "timeline", "compare"] },
  { name: "runs", title: "Runs", component: RunsPage, shown: true, covers: ["run", "run-dag"] },
  { name: "citations", title: "Citations", component: CitationsPage, shown: true, covers: ["source", "subject", "passage"] },
  { name: "stories", title: "Stories", component: StoriesPage, shown: true },
  { name: "search", title: "Search", component: SearchPage, shown: true },
  { name: "unstable", title: "Unstable inputs", component: UnstablePage },
  { name: "timeline", title: "One input over time", component: TimelinePage },
  { name: "compare", title: "Two records", component: ComparePage },
  { name: "records", title: "Records", component: RecordsPage },
  { name: "run-dag", title: "Answer run", component: RunDAGPage },
  { name: "source", title: "Source", component: SourcePage },
  { name: "subject", title: "Subject", component: SubjectPage },
  { name: "passage", title: "Passage", component: PassagePage },
  { name: "record", title: "Record", component: RecordPage },
  { name: "run", title: "Run", component: RunPage },
];

export const navigation = pages.filter((page) => page.shown);
