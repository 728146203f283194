// What `tsc` cannot know about the dashboard: elements found by a selector are HTML elements, pages are custom elements.

interface ParentNode {
  querySelector<E extends HTMLElement = HTMLElement & Record<string, any>>(selectors: string): E | null;
  querySelectorAll<E extends HTMLElement = HTMLElement & Record<string, any>>(selectors: string): NodeListOf<E>;
}
interface Element {
  addressed?(): void;
  refresh?(): void;
  closest<E extends HTMLElement = HTMLElement>(selectors: string): E | null;
}
interface EventTarget {
  closest?(selectors: string): any;
  item?: any;
}
